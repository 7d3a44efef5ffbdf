"""``--llm`` and ``slack post`` as a user calls them: a real process against real sockets."""

from __future__ import annotations

import json

from services.openai_server import OpenAIServer, Recorded, Step, claims, status
from services.slack_server import SlackServer

KEY = "local-test-key-0001"


def first_finding(request: Recorded) -> Step:
    """A model that copies a finding and invents a node."""
    user = request.body["messages"][1]["content"]
    head, sentence = user.split(" finding f1>>>\n")[1].split("\n")[:2]
    assert head.startswith("(")
    return claims((sentence, ["f1"]), ("Node hydra-99 is to blame.", ["f1"]))


def test_analyze_with_a_model(aiops, root):
    bundle = root / "fixtures" / "xid79-slurm"
    plain = json.loads(aiops("analyze", bundle, "--format", "json").stdout)
    with OpenAIServer([first_finding]) as server:
        env = {"AIOPS_LLM_MODEL": "scripted", "AIOPS_LLM_BASE_URL": server.url, "AIOPS_LLM_API_KEY": KEY}
        done = aiops("analyze", bundle, "--format", "json", "--llm", env=env)
    told = json.loads(done.stdout)
    assert done.returncode == 10, done.stderr
    narrative = told["incidents"][0].pop("narrative")
    plain["incidents"][0].pop("narrative")
    assert (narrative["by"], narrative["unsupported_claims"]) == ("scripted", 1)
    assert narrative["text"].endswith("[f1].") and "hydra" not in narrative["text"]
    assert told == plain
    assert KEY.encode() not in done.stdout + done.stderr


def test_analyze_with_a_broken_model_is_the_analysis_by_rules(aiops, root):
    with OpenAIServer([status(401)]) as server:
        env = {"AIOPS_LLM_MODEL": "scripted", "AIOPS_LLM_BASE_URL": server.url, "AIOPS_LLM_API_KEY": KEY}
        done = aiops("analyze", root / "fixtures" / "xid79-slurm", "--format", "json", "--llm", env=env)
    narrative = json.loads(done.stdout)["incidents"][0]["narrative"]
    assert done.returncode == 10
    assert narrative["by"] == "rules" and narrative["text"] and "HTTP 401" in narrative["note"]
    assert KEY.encode() not in done.stdout + done.stderr


def test_slack_post(aiops, root):
    with SlackServer() as slack:
        done = aiops(
            "slack",
            "post",
            root / "fixtures" / "xid79-slurm",
            "--channel",
            "C1",
            "--base-url",
            slack.api,
            env={"SLACK_BOT_TOKEN": slack.token},
        )
        hooked = aiops("slack", "post", root / "fixtures" / "xid79-slurm", env={"AIOPS_SLACK_WEBHOOK": slack.webhook})
        refused = aiops(
            "slack",
            "post",
            root / "fixtures" / "xid79-slurm",
            env={"AIOPS_SLACK_WEBHOOK": slack.webhook.replace("s3cr3tpath", "s3cr3tother")},
        )
    assert (done.returncode, hooked.returncode) == (0, 0), done.stderr + hooked.stderr
    assert slack.messages[0]["channel"] == "C1" and slack.messages[0]["blocks"] == slack.messages[-1]["blocks"]
    assert refused.returncode == 3
    assert b"no_service" in refused.stderr
    assert b"s3cr3t" not in refused.stdout + refused.stderr
