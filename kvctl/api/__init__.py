"""The controller over HTTP: routes made from the table of operations, sessions, certificates, a stream of events."""
