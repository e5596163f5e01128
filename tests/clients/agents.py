"""The coding agents: how each is started without a person, which of its tools do the work, and what its summaries look like.

How each is configured is not here: that is the block of docs/clients.md.
"""
import pathlib
import shlex

from provider import Step

BIG = 260_000
# The file of the session: long enough that a summary of the conversation is shorter than the conversation.
FILLER = "".join(f"Line {number} of the notes says nothing that anybody needs.\n" for number in range(60))
NOTES = f"The first line.\nMarker before: heron.\n{FILLER}The last line.\n"
CHANGED = NOTES.replace("heron", "osprey")
PATCH = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-Marker before: heron.\n+Marker before: osprey.\n*** End Patch\n"
REPLACED = {"old_string": "heron", "new_string": "osprey"}


class Agent:
    environment = {}
    # How many tokens the model reports before the session must be compacted.
    full = BIG
    # Whether it compacts only when the provider has said that the conversation is too long.
    waits_for_refusal = False
    # How often the gateway has to try again, for a client that does not.
    retries = 0

    # The provider whose own program it is, where that sends what a strict reader of the provider's API would not.
    unjudged_at = None
    # Whether the model gets what the command prints.
    shows_output = True

    def __init__(self, programs, project):
        self.path, self.project = programs, project

    def replace_program(self, name, line):
        """For a package that puts its program in place by a script after the installation, which the tests do not run."""
        program = self.project.parent / name
        program.write_text(f'#!/bin/sh\nexec {line} "$@"\n')
        program.chmod(0o755)
        self.path = str(self.project.parent)

    def compacted(self, provider, _printed):
        """Whether the session was compacted, and goes on from the summary."""
        return bool(provider.of_kind("summary")) and "kestrel" in provider.of_kind("turn")[-1].text

    def steps(self, done):
        """The session: a refusal, two calls in one turn of which one reads a file, a stream is cut, the file is edited, a command is run, the end."""
        return [
            Step(status=429),
            Step("I read the notes.", lambda tools: [self.read(tools), self.run(tools, "echo in the same turn: dunlin")]),
            Step("Now I change them, which is done in a moment.", self.edit, cut=True),
            Step("Now I change them, which is done in a moment.", self.edit),
            Step("Now the check.", self.run, pause=0.7, tokens=(self.full, 40)),
            *([Step(status=400)] if self.waits_for_refusal else []),
            Step(done),
        ]

    def summary(self, text):
        return text

    def is_turn(self, tools):
        """Whether a request that offers these tools is a turn of the session, and not one beside it (a title, a probe)."""
        return bool(tools)


class ClaudeCode(Agent):
    summary_mark = "block followed by a <summary> block"
    waits_for_refusal = True
    full = 190_000

    def __init__(self, programs, project):
        super().__init__(programs, project)
        wrapper = pathlib.Path(programs).parent / "@anthropic-ai/claude-code/cli-wrapper.cjs"
        self.replace_program("claude", f"node {wrapper}")

    def command(self, prompt):
        return f"claude -p --dangerously-skip-permissions {shlex.quote(prompt)}"

    environment = {"IS_SANDBOX": "1"}

    def read(self, _tools):
        return "Read", {"file_path": "notes.txt"}

    def edit(self, _tools):
        return "Edit", {"file_path": "notes.txt", **REPLACED}

    def run(self, _tools, command="sh check.sh"):
        return "Bash", {"command": command, "description": "Checks"}


    def summary(self, text):
        return f"<analysis>What was done.</analysis>\n<summary>{text}</summary>"


class Codex(Agent):
    summary_mark = "CONTEXT CHECKPOINT COMPACTION"

    def command(self, prompt):
        return f"codex exec --dangerously-bypass-approvals-and-sandbox {shlex.quote(prompt)}"

    def shell(self, tools, command):
        if "exec_command" in tools:
            return "exec_command", {"cmd": command}
        if "shell_command" in tools:
            return "shell_command", {"command": command}
        return "shell", {"command": ["bash", "-lc", command]}

    def read(self, tools):
        return self.shell(tools, "cat notes.txt")

    def edit(self, tools):
        if "apply_patch" in tools:
            return "apply_patch", PATCH if tools["apply_patch"] else {"input": PATCH}
        return self.shell(tools, f"apply_patch <<'EOF'\n{PATCH}EOF")

    def run(self, tools, command="sh check.sh"):
        return self.shell(tools, command)


class GeminiCli(Agent):
    # `--resume` sends each result of a tool twice, which Google takes and the gateway passes on.
    unjudged_at = "google"
    summary_mark = "generate the updated <state_snapshot>|<state_snapshot> you just generated"

    def command(self, prompt):
        # It compacts between two prompts, when the conversation fills this part of the model's window of a million tokens.
        early = """sed -i 's/^{/{"model": {"compressionThreshold": 0.00001}, /' ~/.gemini/settings.json"""
        once = "gemini --yolo --skip-trust"
        return f"{early}\n{once} -p {shlex.quote(prompt)}\n{once} --resume latest -p 'Is it all done?'"

    def steps(self, done):
        *before, end = super().steps(done)
        return [*before, Step("The check is run."), end]

    def read(self, _tools):
        return "read_file", {"file_path": "notes.txt"}

    def edit(self, _tools):
        return "replace", {"file_path": "notes.txt", "instruction": "Name the other bird.", **REPLACED}

    def run(self, _tools, command="sh check.sh"):
        return "run_shell_command", {"command": command, "description": "Checks"}

    def summary(self, text):
        return f"<state_snapshot><overall_goal>{text}</overall_goal></state_snapshot>"


class OpenCode(Agent):
    summary_mark = "anchored summary|summary of the conversation|Summarize"

    def __init__(self, programs, project):
        super().__init__(programs, project)
        # One for every processor, and one that npm installs beside it for newer ones.
        found = sorted(pathlib.Path(programs).parent.glob("opencode-*/bin/opencode"))
        self.replace_program("opencode", found[-1])

    def command(self, prompt):
        return f"opencode run {shlex.quote(prompt)}"

    def read(self, _tools):
        return "read", {"filePath": "notes.txt"}

    def edit(self, tools):
        if "apply_patch" in tools:
            return "apply_patch", {"patchText": PATCH}
        return "edit", {"filePath": "notes.txt", "oldString": "heron", "newString": "osprey"}

    def run(self, _tools, command="sh check.sh"):
        return "bash", {"command": command, "description": "Checks"}


class Cline(Agent):
    waits_for_refusal = True
    retries = 1
    summary_mark = "no model is asked for a summary here"

    def compacted(self, _provider, printed):
        # It leaves out and shortens messages itself.
        return "overflow-recovery-compacted" in printed

    def command(self, prompt):
        return f"cline {shlex.quote(prompt)}"

    def read(self, _tools):
        return "read_files", {"files": [{"path": f"{self.project}/notes.txt"}]}

    def edit(self, tools):
        if "apply_patch" in tools:
            return "apply_patch", {"input": PATCH}
        return "editor", {"path": f"{self.project}/notes.txt", "old_text": "heron", "new_text": "osprey"}

    def run(self, _tools, command="sh check.sh"):
        return "run_commands", {"commands": [command]}


class Aider(Agent):
    """It offers no tools: what it reads is in the prompt, edits are blocks of text, and it runs the command of its settings."""

    summary_mark = "Briefly. summarize|\\*Briefly\\* summarize"

    shows_output = False

    def is_turn(self, _tools):
        return True

    def command(self, prompt):
        once = "aider --yes-always --no-auto-commits --no-gitignore --no-show-model-warnings --test-cmd 'sh check.sh' --auto-test"
        again = "--restore-chat-history --max-chat-history-tokens 64"
        return f"{once} --message {shlex.quote(prompt)} notes.txt; {once} {again} --message 'Is it all done?' notes.txt"

    def edited(self, request):
        """The edit in the format that this request describes; aider has one for each family of models."""
        if "SEARCH/REPLACE" in request:
            block = "<<<<<<< SEARCH\nMarker before: heron.\n=======\nMarker before: osprey.\n>>>>>>> REPLACE\n"
            return f"Now I change them.\n\nnotes.txt\n```\n{block}```\n"
        return f"Now I change them.\n\nnotes.txt\n```\n{CHANGED}```\n"

    def steps(self, done):
        return [Step(status=429), Step(self.edited, cut=True), Step(self.edited, pause=0.7), Step(done)]


AGENTS = {
    "aider": Aider, "claude": ClaudeCode, "cline": Cline, "codex": Codex, "gemini": GeminiCli, "opencode": OpenCode,
}
