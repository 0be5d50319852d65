"""Certificates of the site's own CA, as the controller keeps them: when they end."""

from collections.abc import Iterator

from kvctl.fleet.checks.outcome import Outcome, Place, judged, not_applicable, unclear
from kvctl.fleet.checks.readings import Certificate
from kvctl.fleet.checks.registry import check
from kvctl.fleet.checks.scope import Fleet
from kvctl.types.findings import Remedy, Severity

DAYS = 30  # a deployment renews what ends within as many
REMEDIES = {
    "engine": "Run kvctl deploy serving --limit {node}: it renews what ends within 30 days.",
    "gateway": "Run kvctl deploy gateway --limit {node}: it renews what ends within 30 days.",
    "store": "Run kvctl deploy storage --limit {node}: it renews what ends within 30 days.",
    "service": "Run kvctl controller certify {name} --to DIR, and give its host the new files.",
    "client": "Run any kvctl deploy: the certificate with which the controller asks daemons is made anew.",
    "server": "Restart kvctld: it makes its https certificate anew.",
    "ca": "No verb renews the CA: move tls/ aside, restart kvctld, and deploy stores, engines and gateways again.",
}


@check(
    id="tls.ends",
    severity=Severity.WARNING,
    title="No certificate of the site ends soon",
    reads=("certificate.ends",),
    right="more than 30 days left",
    remedy=Remedy(text="Deploy to the node again: kvctl deploy renews what ends within 30 days"),
    site_wide=True,
    notes="Read from the controller's state: a certificate that a service was given is kept there. Critical once it is "
    "over: the daemon cannot be reached, or has no lease or snapshot any more.",
)
def ends(fleet: Fleet) -> Iterator[tuple[Place, Outcome]]:
    for one in fleet.certificates:
        yield (one.node, f"certificate {one.name}"), judge(one, fleet)
    if not fleet.certificates:
        yield ("", ""), not_applicable("no certificate was made over this state directory")


def judge(one: Certificate, fleet: Fleet) -> Outcome:
    if one.ends is None:
        return unclear(one.why)
    left = (one.ends - fleet.today).days
    seen = f"{left} days left" if left >= 0 else f"over since {-left} days"
    text = REMEDIES[one.use].format(node=one.node, name=one.name)
    severity = Severity.CRITICAL if left < 0 else None
    return judged(
        left > DAYS, f"{one.ends}: {seen}", f"more than {DAYS} days", severity=severity, remedy=Remedy(text=text)
    )
