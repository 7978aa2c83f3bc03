"""A Rota names who is on call, week by week; admission keeps it whole before the API server stores it."""

import kopf


@kopf.on.startup()
def configure(settings, **_):
    settings.admission.server = kopf.WebhookServer()
    settings.admission.managed = "rota.example.com"


@kopf.on.mutate("rotas.example.com")
def set_defaults(spec, patch, **_):
    if "weeks" not in spec:
        patch.spec["weeks"] = 1


@kopf.on.validate("rotas.example.com")
def check_names(spec, old, dryrun, warnings, **_):
    names = spec.get("people", [])
    if len(set(names)) < len(names):
        raise kopf.AdmissionError("spec.people: the same name twice", code=422)
    if len(names) < 2:
        warnings.append("spec.people: one person is always on call")


@kopf.on.field("rotas.example.com", field="spec.people")
def announce(old, new, body, **_):
    left, joined = sorted(set(old or []) - set(new or [])), sorted(set(new or []) - set(old or []))
    kopf.info(body, reason="Changed", message=f"joined: {', '.join(joined) or 'none'}; left: {', '.join(left) or 'none'}")
    return {"people": len(new or [])}
