"""The official OpenAI SDK fine-tunes at OpenAI and at providers with APIs of their own: a program must not be able to tell.

Environment: BASE_URL (with /v1), KEY (a service key). The slugs are those of `JOBS` (tests/support/settings.rs): behind them is the
emulator, whose jobs advance a step with each GET.
"""

import openai
import openai_sdk as plain
from both import items, refused, run, value

STATES = ["validating_files", "queued", "running", "succeeded", "failed", "cancelled"]
# The provider of the client that is checked: its training file, and whether it keeps checkpoints.
PROVIDERS = {
    "@openai": ("file-train", True),
    "@mistral-tuning": ("file-train", True),
    "@together-tuning": ("file-train", True),
    "@fireworks-tuning": ("train", False),
    "@vertex": ("gs://bucket/train.jsonl", True),
    "@bedrock": ("s3://bucket/train.jsonl", False),
}
PROVIDER = None


def request(suffix, **settings):
    method = {"type": "supervised", "supervised": {"hyperparameters": {"n_epochs": 2, **settings}}}
    body = {"model": "base-model", "training_file": PROVIDERS[PROVIDER][0], "suffix": suffix, "method": method}
    if PROVIDER == "@bedrock":
        body["extra_body"] = {"role_arn": "arn:aws:iam::123456789012:role/tuner"}
    return body


async def a_job_runs_to_its_model(client):
    jobs = client.fine_tuning.jobs
    job = await value(jobs.create(**request("acme-sdk")))
    assert job.object == "fine_tuning.job" and job.status in STATES and job.fine_tuned_model is None
    for _ in range(8):
        if job.status not in STATES[:3]:
            break
        job = await value(jobs.retrieve(job.id))
    assert job.status == "succeeded" and job.fine_tuned_model and job.finished_at >= job.created_at
    assert job.model == "base-model" and job.training_file == PROVIDERS[PROVIDER][0]
    events = await items(jobs.list_events(job.id, limit=1))
    assert events and len({event.id for event in events}) == len(events)
    assert all(event.message and event.level in ("info", "warn", "error") for event in events)
    if not PROVIDERS[PROVIDER][1]:
        other = client.with_options(max_retries=0)
        await refused(openai.InternalServerError, lambda: other.fine_tuning.jobs.checkpoints.list(job.id))
        return
    checkpoints = await items(jobs.checkpoints.list(job.id, limit=1))
    assert checkpoints and checkpoints[0].fine_tuning_job_id == job.id and checkpoints[0].step_number == 100


async def jobs_are_listed(client):
    jobs = client.fine_tuning.jobs
    made = [(await value(jobs.create(**request(f"acme-list-{number}")))).id for number in range(3)]
    found = [job.id for job in await items(jobs.list(limit=2))]
    assert set(made) <= set(found) and len(found) == len(set(found))


async def a_job_is_cancelled(client):
    job = await value(client.fine_tuning.jobs.create(**request("acme-cancel")))
    cancelled = await value(client.fine_tuning.jobs.cancel(job.id))
    assert cancelled.id == job.id and cancelled.status == "cancelled" and cancelled.model == "base-model"


async def what_a_provider_lacks_is_refused(client):
    if PROVIDER == "@openai":
        return
    wrong = request("acme-wrong", momentum=1)
    error = await refused(openai.BadRequestError, lambda: client.fine_tuning.jobs.create(**wrong))
    assert error.param == "method.supervised.hyperparameters.momentum"


CHECKS = [a_job_runs_to_its_model, jobs_are_listed, a_job_is_cancelled, what_a_provider_lacks_is_refused]


def made(kind, provider):
    """How a client is made; the checks then fine-tune at the provider."""

    def make():
        global PROVIDER
        PROVIDER = provider
        return kind(base_url=plain.BASE_URL, api_key=plain.KEY, default_headers={"x-gateway-provider": provider})

    return make


if __name__ == "__main__":
    kinds = {"sync": openai.OpenAI, "async": openai.AsyncOpenAI}
    run(CHECKS, {f"{name} {slug}": made(kind, slug) for slug in PROVIDERS for name, kind in kinds.items()})
