"""Fleet: nodes as they were last read, findings, plans and runs."""

from kvctl.api.menu import Action, Field, Form, Page, Part, Row

NODES = Field("nodes", "Nodes", hint="comma separated; none: all")


def running(row: Row) -> bool:
    return bool(row["state"] == "running")


RUN_COLUMNS = ("id", "state", "started", "ended", "progress", "failed", "changed")
CANCEL = Action("run.cancel", "Stop", (("run", "id"),), running, "danger")

PAGES = (
    Page(
        "/fleet",
        "Fleet",
        "Nodes as they were last read; findings and runs beside them.",
        group="Overview",
        icon="nodes",
        parts=(
            Part(
                "Runs",
                "run.ls",
                "runs",
                RUN_COLUMNS,
                "No run yet. kvctl provision carries a plan out.",
                (CANCEL,),
                live="run. fleet.",
                busy=running,
                per=10,
            ),
            Part(
                "Nodes",
                "fleet.status",
                "nodes",
                ("node", "role", "state", "faults", "critical", "worst", "reason", "read_age", "error"),
                "No node was read yet. Run kvctl check, or Read nodes below.",
                live="fleet.",
            ),
            Part(
                "Findings",
                "fleet.findings",
                "findings",
                ("severity", "node", "check", "subject", "verdict", "observed", "expected", "remedy"),
                "No findings.",
                live="fleet.",
            ),
            Part(
                "Stores",
                "store.ls",
                "stores",
                ("store", "state", "why", "copies", "bytes", "clock_ms", "seen_at"),
                "No store is registered. Deploy one with kvctl deploy storage.",
                (
                    Action("store.sync", "Read now", (("store", "store"),), lambda row: bool(row["configured"])),
                    Action("store.compare", "Compare", (("store", "store"),), lambda row: bool(row["configured"])),
                ),
            ),
            Part(
                "Plan",
                "fleet.plan",
                view="plan",
                takes=("plan",),
                absent="KV-PLAN-010",
                empty="No plan yet. Make a plan below, or run kvctl plan.",
            ),
        ),
        forms=(
            Form(
                "fleet.check",
                "Read nodes and judge them",
                "Read nodes",
                (NODES,),
                dry=False,
                about="Takes as long as the slowest node.",
            ),
            Form(
                "fleet.make-plan",
                "Make a plan",
                "Make a plan",
                (NODES,),
                dry=False,
                about="Reads nodes and stores what would put them right. Carrying it out is kvctl provision.",
            ),
        ),
    ),
    Page(
        "/fleet/runs/{run}",
        "Run",
        "A plan that is, or was, carried out: every step, and how far it is.",
        parts=(
            Part("Run", "run.show", view="run", needs=("run",), live="run.", busy=running),
            Part(
                "Steps",
                "run.show",
                "steps_view",
                ("id", "node", "role", "state", "started", "ended", "changed", "why"),
                "It has no steps.",
                needs=("run",),
                live="run.",
                busy=lambda row: row["state"] == "running",
                per=200,
            ),
            Part(
                "Nodes",
                "run.show",
                "nodes_view",
                ("node", "state", "why"),
                "No node is said to be out of it.",
                needs=("run",),
                live="run.",
            ),
        ),
    ),
)
