"""The extraction services as a worker needs them: configured, reachable, and taking our credential.

Nothing is submitted: the credential is tried by asking about a job that nobody has.
"""

from __future__ import annotations

from collections.abc import Iterator

from consumers.operations.checks import Check, failed, ok, warning
from consumers.providers.errors import JobNotFound, NotAuthorized, OutOfCredit, ProviderError
from consumers.providers.protocol import Provider
from consumers.providers.regions import cuts_nothing
from consumers.providers.registry import SettingsInvalid, build, problems_at_start
from consumers.settings import Settings

NOBODYS_JOB = "00000000-0000-0000-0000-000000000000"


def check_providers(settings: Settings) -> Iterator[Check]:
    """Those that a policy uses."""
    for name in sorted({policy.provider for policy in settings.policies.values()}):
        what = f"providers.{name}"
        configured = settings.providers.get(name)
        if configured is None:
            yield failed(what, "a policy uses it and it is not configured", f"add [{what}]")
            continue
        try:
            provider = build(
                configured.model_copy(update={"name": configured.name or name}),
                cut_regions=cuts_nothing,
            )
        except SettingsInvalid as error:
            yield failed(what, str(error), f"correct [{what}]")
            continue
        try:
            problems = problems_at_start(
                provider, forbidden_regions=settings.forbidden_regions(name)
            )
            reachable = f"check {what}.base_url, and that the service is up"
            for problem in problems:
                rule = f"{reachable}; or take another provider where forbidden_regions applies"
                yield failed(what, problem.text, rule if problem.forbids else reachable)
            if not problems:
                yield ok(what, f"{configured.kind} is configured and says nothing against its use")
                yield _credential(what, provider)
        finally:
            provider.close()


def _credential(service: str, provider: Provider) -> Check:
    what = f"{service} credential"
    try:
        provider.poll(NOBODYS_JOB)
    except NotAuthorized as error:
        return failed(
            what, f"the service refuses it ({error.code})", f"renew {service}.token or its file"
        )
    except OutOfCredit as error:
        return failed(what, f"the account has no credit ({error.code})", "top the account up")
    except JobNotFound:
        return ok(what, "the service takes it")
    except ProviderError as error:
        return warning(what, f"it could not be tried ({error.code})", "try again later")
    return ok(what, "the service takes it")
