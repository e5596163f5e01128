"""Administration with the `portkey-ai` SDK: base URL and key alone, every call it offers for what the gateway keeps.

Environment: BASE_URL (with /v1), KEY (a service key with every scope), EMULATOR (the address of the built-in provider). Requests
of models go through what the SDK itself has stored.
"""

import json
import os
import uuid
import warnings

import portkey_ai
from both import items, refused, run, value

BASE_URL, KEY, EMULATOR = os.environ["BASE_URL"], os.environ["KEY"], os.environ["EMULATOR"]
MODEL = "gpt-4o-mini"
HELLO = [{"role": "user", "content": "Say hello."}]
ACCOUNT = {"custom_host": EMULATOR}
ERRORS = portkey_ai.api_resources.exceptions

warnings.simplefilter("ignore", DeprecationWarning)


def own(name):
    """A name that no other check has."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


async def provider_of(client):
    """A provider made by the SDK, with the emulator behind it: its slug."""
    made = await value(
        client.integrations.create(name=own("account"), ai_provider_id="openai", key="sk-secret-1", configurations=ACCOUNT)
    )
    assert made.id and made.slug
    return made.slug


async def chats(client, **options):
    """A chat, whole and streamed, with a client that has these options of the SDK."""
    other = type(client)(base_url=BASE_URL, api_key=KEY, **options)
    answer = await value(other.chat.completions.create(model=MODEL, messages=HELLO))
    assert answer.choices[0].message.content
    chunks = await items(other.chat.completions.create(model=MODEL, messages=HELLO, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


async def configs(client):
    target = {"provider": f"@{await provider_of(client)}", "override_params": {"model": MODEL}}
    made = await value(client.configs.create(name=own("config"), config=target))
    assert made.id and made.version_id and made.slug.startswith("pc-"), made
    await chats(client, config=made.slug)
    read = await value(client.configs.retrieve(slug=made.slug))
    assert read.slug == made.slug and read.status == "active" and "@accoun" in read.config, read
    changed = await value(client.configs.update(slug=made.slug, name="renamed", config={**target, "retry": {"attempts": 1}}))
    assert changed.version_id and changed.version_id != made.version_id, changed
    listed = await value(client.configs.list())
    assert [config["name"] for config in listed.data if config["slug"] == made.slug] == ["renamed"]
    await value(client.configs.delete(slug=made.slug))
    await refused(ERRORS.NotFoundError, lambda: client.configs.retrieve(slug=made.slug))


async def integrations_and_providers(client):
    integration = await provider_of(client)
    read = await value(client.integrations.retrieve(slug=integration))
    assert read.ai_provider_id == "openai" and "secret" not in str(read), read
    await value(client.integrations.update(slug=integration, description="changed"))
    listed = await value(client.integrations.list(current_page=0, page_size=100))
    assert [item.description for item in listed.data if item.slug == integration] == ["changed"]
    limits = {"rate_limits": {"type": "requests", "unit": "rpm", "value": 100}, "usage_limits": {"credit_limit": 10.0}}
    made = await value(client.providers.create(name=own("provider"), integration_id=integration, **limits))
    assert made.id and made.slug
    await chats(client, provider=f"@{made.slug}")
    read = await value(client.providers.retrieve(slug=made.slug))
    assert read.integration_id == integration and read.usage_limits["credit_limit"] == 10, read
    await value(client.providers.update(slug=made.slug, note="a note", reset_usage=True))
    listed = await value(client.providers.list())
    assert [item.note for item in listed.data if item.slug == made.slug] == ["a note"]
    await value(client.providers.delete(slug=made.slug))
    await refused(ERRORS.NotFoundError, lambda: client.providers.retrieve(slug=made.slug))
    await value(client.integrations.delete(slug=integration))


async def api_keys(client):
    made = await value(
        client.api_keys.create(
            type="workspace",
            sub_type="service",
            name=own("key"),
            scopes=["completions.write", "configs.list"],
            rate_limits=[{"type": "requests", "unit": "rpm", "value": 100}],
            usage_limits={"credit_limit": 10.0},
            defaults={"metadata": {"team": "a"}},
        )
    )
    assert made.id and made.key.startswith("gk_"), made
    other = type(client)(base_url=BASE_URL, api_key=made.key)
    answer = await value(other.with_options(provider="@emulator").chat.completions.create(model=MODEL, messages=HELLO))
    assert answer.choices[0].message.content
    read = await value(client.api_keys.retrieve(id=made.id))
    assert read.type == "workspace-service" and read.status == "active" and made.key not in str(read), read
    assert read.rate_limits[0]["value"] == 100 and read.usage_limits["credit_limit"] == 10
    await value(client.api_keys.update(id=made.id, name="renamed", scopes=["configs.list"]))
    await refused(
        portkey_ai._vendor.openai.PermissionDeniedError,
        lambda: other.with_options(provider="@emulator").chat.completions.create(model=MODEL, messages=HELLO),
    )
    listed = await value(client.api_keys.list(page_size=100, current_page=0))
    assert "renamed" in [item["name"] for item in listed.data]
    await value(client.api_keys.delete(id=made.id))
    await refused(ERRORS.AuthenticationError, lambda: other.configs.list())


async def virtual_keys(client):
    made = await value(
        client.virtual_keys.create(name=own("key"), provider="openai", key="sk-secret-1", usage_limits={"credit_limit": 1})
    )
    assert made.slug, made
    await value(client.virtual_keys.update(slug=made.slug, note="a note", rate_limits=[{"unit": "rpm", "value": 3}]))
    read = await value(client.virtual_keys.retrieve(slug=made.slug))
    assert (read.note, read.key, read.object) == ("a note", "", "virtual-key") and "sk-secret-1" not in str(read), read
    listed = await value(client.virtual_keys.list())
    assert made.slug in [item["slug"] for item in listed.data]
    await value(client.virtual_keys.delete(slug=made.slug))
    await refused(ERRORS.NotFoundError, lambda: client.virtual_keys.retrieve(slug=made.slug))
    # One record, three views: what an integration has made is a virtual key as well.
    await chats(client, virtual_key=await provider_of(client))


async def workspaces_users_and_invites(client):
    name = own("team")
    made = await value(client.admin.workspaces.create(name=name, description="d", defaults={"metadata": {"team": "a"}}))
    assert made.id and made.slug and made.name == name
    read = await value(client.admin.workspaces.retrieve(workspace_id=made.slug))
    assert read.id == made.id and read.defaults["metadata"] == {"team": "a"}, read
    changed = await value(client.admin.workspaces.update(workspace_id=made.id, description="e"))
    assert changed.description == "e"
    listed = await value(client.admin.workspaces.list(page_size=100, current_page=0))
    assert made.id in [workspace.id for workspace in listed.data]

    email = f"{own('ann')}@example.com"
    invited = await value(
        client.admin.users.invites.create(email=email, role="member", workspaces=[{"id": made.slug, "role": "member"}])
    )
    assert invited.id and invited.invite_link
    read = await value(client.admin.users.invites.retrieve(invite_id=invited.id))
    assert read.email == email and read.status == "pending"
    listed = await value(client.admin.users.invites.list(email=email))
    assert [invite.id for invite in listed.data] == [invited.id]
    if hasattr(client.admin.users.invites, "resend"):
        await value(client.admin.users.invites.resend(invite_id=invited.id))
    users = await value(client.admin.users.list())
    assert users.object == "list"
    members = await value(client.admin.workspaces.users.list(workspace_id=made.id))
    assert members.object == "list"
    await value(client.admin.users.invites.delete(invite_id=invited.id))
    await value(client.admin.workspaces.delete(workspace_id=made.id, name=name))
    gone = await value(client.admin.workspaces.list(exact_name=name))
    assert gone.total == 0, gone


async def guardrails(client):
    checks = [{"id": "default.contains", "parameters": {"words": ["x"], "operator": "any"}}]
    made = await value(client.guardrails.create(name=own("check"), checks=checks, actions={"deny": False, "async": False}))
    assert made.id and made.slug and made.version_id
    read = await value(client.guardrails.retrieve(guardrail_id=made.slug))
    assert read.id == made.id and read.checks[0]["id"] == "default.contains"
    changed = await value(client.guardrails.update(guardrail_id=made.id, name="renamed"))
    assert changed.id == made.id
    listed = await value(client.guardrails.list())
    assert "renamed" in [item.name for item in listed.data]
    await value(client.guardrails.delete(guardrail_id=made.id))
    await refused(ERRORS.NotFoundError, lambda: client.guardrails.retrieve(guardrail_id=made.id))


async def prompts(client):
    collection = await value(client.collections.create(name=own("collection")))
    template = [{"role": "user", "content": "Say {{word}}."}]
    made = await value(
        client.prompts.create(
            name=own("prompt"),
            collection_id=collection.id,
            string=json.dumps(template),
            parameters={"temperature": 0.2},
            virtual_key=await provider_of(client),
            model=MODEL,
        )
    )
    assert made.id and made.slug.startswith("pp-") and made.version_id
    variables = {"word": 'a "b"\nc'}
    rendered = await value(client.prompts.render(prompt_id=made.slug, variables=variables, temperature=1))
    assert rendered.success and rendered.data.messages[0].content == 'Say a "b"\nc.' and rendered.data.temperature == 1
    answer = await value(client.prompts.completions.create(prompt_id=made.slug, variables=variables))
    assert answer.choices[0].message.content and answer.usage.total_tokens > 0
    chunks = await items(client.prompts.completions.create(prompt_id=made.slug, variables=variables, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    second = {"string": json.dumps([{"role": "user", "content": "Shout {{word}}."}]), "parameters": {}, "model": MODEL}
    await value(client.prompts.update(prompt_slug=made.slug, virtual_key=await provider_of(client), **second))
    versions = await value(client.prompts.versions.list(prompt_slug=made.slug))
    newest = max(versions.data, key=lambda version: version["prompt_version"])
    assert newest["prompt_version"] == 2, versions
    await value(client.prompts.publish(prompt_slug=made.slug, version=2))
    rendered = await value(client.prompts.render(prompt_id=made.slug, variables={"word": "x"}))
    assert rendered.data.messages[0].content == "Shout x."

    label = await value(client.labels.create(name=own("label")))
    await value(
        client.prompts.versions.update(prompt_slug=made.slug, version_id=made.version_id, label_id=label.id)
    )
    name = (await value(client.labels.retrieve(label_id=label.id))).name
    rendered = await value(client.prompts.render(prompt_id=f"{made.slug}@{name}", variables={"word": "x"}))
    assert rendered.data.messages[0].content == "Say x."
    assert name in [item["name"] for item in (await value(client.labels.list())).data]
    await value(client.labels.update(label_id=label.id, description="d"))

    read = await value(client.prompts.retrieve(prompt_slug=made.slug))
    assert read.model == MODEL and read.prompt_version == 2
    listed = await value(client.prompts.list(collection_id=collection.id))
    assert [item["slug"] for item in listed.data] == [made.slug]
    await value(client.prompts.delete(prompt_slug=made.slug))
    await value(client.labels.delete(label_id=label.id))
    await value(client.collections.update(collection_id=collection.id, name="renamed"))
    assert (await value(client.collections.retrieve(collection_id=collection.id))).name == "renamed"
    await value(client.collections.delete(collection_id=collection.id))


async def partials(client):
    made = await value(client.prompts.partials.create(name=own("partial"), string="Hello {{name}}."))
    assert made.slug and made.version_id
    await value(client.prompts.partials.update(partial_slug=made.slug, string="Good day {{name}}."))
    versions = await value(client.prompts.partials.versions.list(partial_slug=made.slug))
    assert len(versions.data) == 2
    await value(client.prompts.partials.publish(partial_slug=made.slug, version=2))
    read = await value(client.prompts.partials.retrieve(partial_slug=made.slug))
    assert read.string == "Good day {{name}}."
    listed = await value(client.prompts.partials.list())
    assert made.slug in [item["slug"] for item in listed.data]
    await value(client.prompts.partials.delete(partial_slug=made.slug))


async def refusals_are_of_their_kind(client):
    other = type(client)(base_url=BASE_URL, api_key="gk_nothing")
    error = await refused(ERRORS.AuthenticationError, lambda: other.configs.list())
    assert "key" in error.message, error
    error = await refused(ERRORS.BadRequestError, lambda: client.configs.create(name="a", config={"retry": {"attempts": "x"}}))
    assert "retry.attempts" in error.message, error


CHECKS = [
    configs,
    integrations_and_providers,
    api_keys,
    virtual_keys,
    workspaces_users_and_invites,
    guardrails,
    prompts,
    partials,
    refusals_are_of_their_kind,
]

if __name__ == "__main__":
    options = {"base_url": BASE_URL, "api_key": KEY}
    run(CHECKS, {"sync": lambda: portkey_ai.Portkey(**options), "async": lambda: portkey_ai.AsyncPortkey(**options)})
