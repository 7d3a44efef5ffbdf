"""Secrets go, what identifies hardware and code stays, and hostile text costs linear time."""

from __future__ import annotations

import re
from re import _parser  # type: ignore[attr-defined]

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from report import samples

from aiops.model.report import Evidence
from aiops.redaction import ADDRESS_RULES, RULES, Redactor, redact, redact_report

SECRETS = {
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "aws session": "ASIAIOSFODNN7EXAMPLE",
    "openai": "sk-proj-T3BlbkFJabcdefghijkl",
    "anthropic": "sk-ant-api03-abcDEF_123456-xyz",
    "nvidia": "nvapi-abcdefghij0123456789_-AB",
    "google": "AIzaSyA0123456789abcdefghijklmnopqrstu",
    "hugging face": "hf_aBcDeFgHiJkLmNoPqRsT",
    "github": "ghp_0123456789abcdefABCDEF0123456789abcd",
    "github fine": "github_pat_11ABCDEFG0abcdefghij_klmnop",
    "gitlab": "glpat-abcdefgh12345678ABCD",
    "slack": "xoxb-2345678901-abcdefABCDEF",
    "slack app": "xapp-1-A012-345-abcdef",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
}
KEPT = [
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
    "GPU-5c1f0a7e-93b2-4b57-a5a0-0f2d7e0c9d11 at 00000000:3B:00.0 lost",
    "MIG-5c1f0a7e-93b2-4b57-a5a0-0f2d7e0c9d11",
    "commit 3fa9b2c13fa9b2c13fa9b2c13fa9b2c13fa9b2c1 (HEAD -> main)",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "eos_token: </s>, pad_token=<pad>, num_tokens: 4096, tokens/s 1.92M, token: 128",
    "tokenizer=llama max_token=512 --max-token 512 token_type_ids=[0, 1]",
    "invalid token: expired",
    "authorization: failed",
    'secret "regcred" not found',
    "PWD=/home/train",
    "password: <none>",
    "api_key=***",
    "token=${HF_TOKEN}",
    "password: null",
    "user@1000.service: Failed",
    "slurmd@gpu.service",
    "http://10.0.0.1:29500/store",
    "image registry/foo@sha256:abc",
    "sk-learn-trainer-worker-0",
    "risk-adjusted",
    "hf_transfer",
    "bearer authentication is off",
    "03:14:07 10.0.0.7:1234 rank 3 step 41500 | loss 2.1183",
]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@given(before=st.text(max_size=40), after=st.text(max_size=40))
@example(before="", after="")
@example(before='{"x": "', after='"}')
def test_a_token_goes_whatever_stands_around_it(secret, before, after):
    assert secret not in redact(f"{before} {secret} {after}", redactor=Redactor())


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("password=hunter2, node=n1", "hunter2"),
        ("DB_PASSWORD: hunter2", "hunter2"),
        ('{"password": "hun\\"ter2 x", "a": 1}', "ter2"),
        ('log: {\\"password\\":\\"hunter2\\",\\"a\\":1}', "hunter2"),
        ("{'clientSecret': 'hunter2'}", "hunter2"),
        ("passwd = hunter2;", "hunter2"),
        ("WANDB_API_KEY=3fa9b2c13fa9b2c13fa9b2c13fa9b2c13fa9b2c1", "3fa9b2c1"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalrXUtn"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("authorization: bearer abc.def.ghi1", "abc.def"),
        ("curl -H 'X-Api-Key: abc1234567' x", "abc1234567"),
        ("--password hunter2 --nodes 4", "hunter2"),
        ("- name: HF_TOKEN\n  value: abcdefgh", "abcdefgh"),
        ('{"name":"HF_TOKEN","value":"abcdefgh"}', "abcdefgh"),
        ("postgres://train:s3cr@t@db/x", "s3cr"),
        ("https://u:pa/ss@host/x", "pa/ss"),
        ("https://hooks.slack.com/services/T000/B000/XXXXyyyy", "XXXXyyyy"),
        ("https://acct.blob.core/x?sv=1&sig=abcdefghi%3D", "abcdefghi"),
        ("AccountKey=abcd1234==;EndpointSuffix=x", "abcd1234"),
        ("Set-Cookie: session=abcdef; Path=/", "abcdef"),
        ("mail jane.doe+x@mail.example.co.uk now", "jane.doe"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----\nok", "MIIEabc"),
        ("-----BEGIN PRIVATE KEY-----\\nMIIEabc\\n-----END PRIVATE KEY-----", "MIIEabc"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEabc\nMIIEdef==", "MIIEdef"),
        ("MIIEabc\nMIIEdef==\n-----END PRIVATE KEY-----", "MIIEabc"),
        ("pass\u200bword=ignored token=abcd1234", "abcd1234"),
    ],
)
def test_a_value_under_a_telling_name_goes(text, gone):
    assert gone not in redact(text, redactor=Redactor())


@pytest.mark.parametrize("line", KEPT)
def test_what_is_no_secret_stays(line):
    assert redact(line, redactor=Redactor()) == line


@given(st.text(max_size=300))
@example("password=[redacted:secret#1]tail")
@example("http://[redacted:url-userinfo#1]@h token=[redacted:hf-token#2].")
@example("-----BEGIN A-----\nx\n-----END A-----")
def test_redacting_twice_is_redacting_once(text):
    redactor = Redactor(ips=True)
    once = redactor.text(text)
    assert redactor.text(once) == once


@given(st.lists(st.sampled_from(sorted(SECRETS.values())), min_size=1, max_size=8))
def test_equal_secrets_stay_linkable_and_different_ones_apart(secrets):
    redactor = Redactor()
    shown = [redactor.text(f"x {secret} y") for secret in secrets]
    assert redactor.count == len(secrets)
    for first, one in zip(secrets, shown, strict=True):
        for second, other in zip(secrets, shown, strict=True):
            assert (first == second) == (one == other)


def test_the_same_texts_give_the_same_output_in_every_run():
    texts = ["password=a1b2", "token=c3d4e5", "password=a1b2"]
    assert [*map(Redactor().text, texts)] == [*map(Redactor().text, texts)]
    assert Redactor().text(texts[0]) == "password=[redacted:secret#1]"


def test_no_secret_is_kept_in_memory():
    redactor = Redactor()
    redactor.text("password=hunter2secret")
    assert "hunter2secret" not in repr(vars(redactor))


def test_the_rest_of_the_line_stays_readable():
    line = 'rank 3 token="abc123def", node=gpu-7, url=http://u:p@db:80/x GPU 5'
    assert Redactor().text(line) == (
        'rank 3 token="[redacted:secret#2]", node=gpu-7, url=http://[redacted:url-userinfo#1]@db:80/x GPU 5'
    )


def test_line_numbers_survive_a_key_block():
    text = "one\n-----BEGIN PRIVATE KEY-----\nAAAA\nBBBB\n-----END PRIVATE KEY-----\nsix"
    assert Redactor().text(text).split("\n")[5] == "six"


def test_addresses_are_hidden_on_request():
    redactor = Redactor(ips=True)
    assert "10.1.2.3" not in redactor.text("peer 10.1.2.3<29500> at 03:14:07")
    assert "fe80::1" not in redactor.text("from fe80::1 to")
    assert redactor.text("PCI 0000:3b:00.0 at 03:14:07, v1.2.3") == "PCI 0000:3b:00.0 at 03:14:07, v1.2.3"


@pytest.mark.parametrize("rule", (*RULES, *ADDRESS_RULES), ids=lambda rule: rule.kind)
def test_repeats_are_bounded_or_stand_last(rule):
    """An unbounded repeat that something must follow makes a search quadratic.

    The exception is a word that can only start at a boundary of its own letters: each is read once.
    """
    if rule.kind == "jwt":
        assert rule.pattern.pattern.startswith(r"(?<![\w-])eyJ[\w-]{6,}\.")
        return
    assert unbounded_inside(list(_parser.parse(rule.pattern.pattern, rule.pattern.flags & ~re.UNICODE))) == []


def unbounded_inside(tree: list, last: bool = True) -> list:
    found = []
    for position, (name, value) in enumerate(tree):
        tail = last and position == len(tree) - 1
        kind = str(name)
        if kind.endswith("_REPEAT"):
            if value[1] is _parser.MAXREPEAT and not tail:
                found.append((name, value))
        elif kind == "SUBPATTERN":
            found += unbounded_inside(list(value[3]), tail)
        elif kind == "BRANCH":
            for branch in value[1]:
                found += unbounded_inside(list(branch), tail)
    return found


HOSTILE = [
    "a",
    "a@",
    "eyJ",
    "eyJaaaaaa.",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\n",
    "-----END A-----\n",
    'token="\\',
    "token=",
    'password:"',
    "password=]",
    "a,",
    "://",
    "b.",
    "--a",
    "name:",
    "sk-a-",
    "bearer ",
    "1.",
    ":",
    'password\\":\\"',
    "cookie:",
    "key=",
    "&sig=",
    "x\n",
    "A1b" * 21 + "A\n",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_much_hostile_text_is_read_to_its_end(piece):
    """With a quadratic rule this takes hours."""
    text = piece * (300_000 // len(piece)) + " password=hunter2"
    assert "hunter2" not in Redactor(ips=True).text(text)


def test_a_report_is_redacted_whole_and_stays_a_report():
    report = samples.off_bus()
    incident = report.incidents[0]
    incident.evidence.append(
        Evidence(
            id="e10",
            source="env.log",
            locator="env.log:3",
            text="MIIEpAIBAAKCAQEA",
            before=["x", "-----BEGIN RSA PRIVATE KEY-----"],
            after=["-----END RSA PRIVATE KEY-----", "HF_TOKEN=abcd1234"],
        )
    )
    incident.actions[0].why = "mail ops@example.com"
    redacted, count = redact_report(report)
    shown = redacted.to_json().decode()
    assert count == 3
    for secret in ("MIIEpAIBAAKCAQEA", "abcd1234", "ops@example.com"):
        assert secret not in shown
    last = redacted.incidents[0].evidence[-1]
    assert (len(last.before), len(last.after), last.before[0]) == (2, 2, "x")
    assert incident.evidence[-1].text == "MIIEpAIBAAKCAQEA"


def test_a_report_without_secrets_is_unchanged():
    report = samples.two_incidents()
    redacted, count = redact_report(report)
    assert count == 0
    assert redacted.to_json() == report.to_json()
