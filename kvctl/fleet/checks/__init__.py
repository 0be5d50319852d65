"""Facts in, findings out: pure functions, one module a subject, one function a check."""
