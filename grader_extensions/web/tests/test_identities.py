"""Users of an identity provider: their names, which may sign in, and the settings that name the provider."""

import re

import pytest

from grader.config import Settings
from grader.errors import SettingsInvalid
from grader.model import Scope
from grader.rules.keys import check_user
from grader_extensions.command_line import ExtensionCommands
from grader_extensions.operation import server_doctor as doctor
from grader_extensions.web.identities import claim_rules, identity_provider, safe_endpoint, safe_url, user_names
from grader_extensions.web.provider_users import SCOPES

ISSUER = "https://login.example.org"
VERIFIED = {"email": "ann.lee@example.org", "email_verified": True}


@pytest.mark.parametrize(
    ("claims", "stem"),
    [
        ({"preferred_username": "Ann"}, "ann"), ({"preferred_username": "ann@example.org"}, "ann"), (VERIFIED, "ann.lee"),
        ({"preferred_username": "Ann", **VERIFIED}, "ann"), ({**VERIFIED, "email_verified": False}, "user"), ({"email": "a@b.c"}, "user"),
        ({}, "user"), ({"preferred_username": 5}, "user"), ({"preferred_username": "Zoë Müller"}, "zoe-muller"),
        ({"preferred_username": "李"}, "user"),
        ({"preferred_username": "../../root"}, "root"), ({"preferred_username": "<script>\n\u202e"}, "script"),
        ({"preferred_username": "a" * 500}, "a" * 39),
    ],
)  # fmt: skip
def test_a_user_is_called_as_at_the_provider_with_a_digest(claims, stem):
    """By the name there, or a verified address; each is a user name, and the longer ones begin like the shorter ones."""
    names = user_names(ISSUER, "1", claims)
    assert re.fullmatch(re.escape(stem) + "-[0-9a-f]{6}", names[0]), names[0]
    for name in names:
        check_user(name)
        assert name.startswith(names[0])


def test_the_digest_is_of_issuer_and_subject():
    """So the same name elsewhere, or of another user, is another name; and nobody can choose a name that another has."""
    names = {user_names(issuer, subject, {})[0] for issuer in (ISSUER, "https://b.example") for subject in ("1", "2")}
    assert len(names) == 4


@pytest.mark.parametrize(("text", "claims", "holds"), [
    ("@example.org", VERIFIED, True), ("@Example.org", {**VERIFIED, "email": "A@EXAMPLE.ORG"}, True), ("@ample.org", VERIFIED, False),
    ("@example.org", {**VERIFIED, "email_verified": 1}, False), ("@example.org", {"email": VERIFIED["email"]}, False),
    ("@example.org", {**VERIFIED, "email": "ann@example.org.evil.example"}, False),
    ("@example.org", {**VERIFIED, "email": ["x@example.org"]}, False),
    ("email=Ann.Lee@example.org", VERIFIED, True), ("email=ann.lee@example.org", {**VERIFIED, "email": "Ann.Lee@Example.org"}, True),
    ("email=ann.lee@example.org", {**VERIFIED, "email_verified": False}, False),
    ("email=ann.lee@example.org", {"email": VERIFIED["email"]}, False), ("email=lee@example.org", VERIFIED, False),
    ("groups=lab", {"groups": "lab"}, True), ("groups=lab", {"groups": ["a", "lab"]}, True), ("groups=lab", {"groups": "labs"}, False),
    ("groups=lab", {"groups": {"lab": 1}}, False), ("a=b=c", {"a": "b=c"}, True), ("n=1", {"n": 1}, False),
])  # fmt: skip
def test_a_rule_holds_for_a_claim(text, claims, holds):
    """For a verified e-mail address, by itself or by its domain; for another claim, for its value or one of a list."""
    (rule,) = claim_rules([text])
    assert rule.holds(claims) is holds


@pytest.mark.parametrize("text", ["", "@", "@a b", "everyone", "=x", "x=", "email=@example.org", "example.org"])
def test_what_is_no_rule_says_how_one_is_written(text):
    """For a rule that is read wrongly might let everybody in."""
    with pytest.raises(ValueError, match="write"):
        claim_rules([text])


@pytest.mark.parametrize(("url", "safe"), [
    ("https://a.example", True), ("https://a.example:8443/realms/x?y=z", True), ("http://127.0.0.1:9", True), ("http://localhost/x", True),
    ("http://a.example", False), ("http://localhost.evil.example", False), ("http://127.0.0.1@evil.example", False),
    ("https://u:p@a.example", False),
    ("https://", False), ("", False), ("ftp://a.example", False), ("https://a.example/#x", False), ("https://a.example:x", False),
    ("https://[", False),
    ("https://a b", False), ("https://a.example/" + "x" * 500, False), ("javascript:alert(1)", False),
])  # fmt: skip
def test_a_secret_goes_to_safe_urls_only(url, safe):
    assert safe_url(url) is safe


@pytest.mark.parametrize(("url", "issuer", "safe"), [
    ("https://a.example/token", ISSUER, True), ("https://a.example/token", "http://localhost:9", True),
    ("http://localhost:9/token", "http://localhost:9", True), ("http://127.0.0.1:9/token", "HTTP://LOCALHOST:8", True),
    ("http://127.0.0.1:9/token", ISSUER, False), ("HTTP://localhost/token", "HTTPS://login.example.org", False),
    ("http://a.example/token", "http://localhost:9", False),
])  # fmt: skip
def test_a_provider_of_another_host_names_no_address_of_this_one(url, issuer, safe):
    """Such an address would have this server send codes and the client's secret to a program here. A trial's provider is on this host."""
    assert safe_endpoint(url, issuer) is safe


@pytest.fixture
def good(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("the secret\n")
    secret.chmod(0o600)
    return {
        "auth": "keys", "web": "0", "public_url": "https://grader.example.org/", "oidc_issuer": ISSUER, "oidc_client_id": "grader",
        "oidc_client_secret_file": secret, "oidc_allow": ("@example.org",),
    }  # fmt: skip


def test_settings_name_a_provider(good):
    """Called by its host, where no name is given; its secret is in no text about it."""
    provider = identity_provider(Settings(**good))
    assert (provider.name, provider.issuer, provider.public_url) == ("login.example.org", ISSUER, "https://grader.example.org")
    assert provider.client_secret == "the secret" and "the secret" not in repr(provider)
    assert identity_provider(Settings(**good, oidc_name="Example")).name == "Example"
    assert identity_provider(Settings()) is None


def test_the_doctor_looks_at_the_settings(good, tmp_path):
    """As the server itself would, and says what to register there; without a provider there is nothing to say."""
    (sign_in,) = (finding for finding in doctor.look(Settings(**good, state_dir=tmp_path)) if finding.name == "sign-in")
    assert sign_in.standing is doctor.CheckupStatus.OK and "https://grader.example.org/sign-in/provider/callback" in sign_in.detail
    good["oidc_client_secret_file"].chmod(0o644)
    assert [(name, wrong) for name, _, wrong in ExtensionCommands().checkups(Settings(**good))] == [("sign-in", True)]
    assert not ExtensionCommands().checkups(Settings())


@pytest.mark.parametrize(("setting", "value", "says"), [
    ("web", None, "--web PORT"), ("auth", "none", "--auth keys"),
    ("public_url", "", "is missing"), ("public_url", "http://grader.example.org", "https://"),
    ("public_url", "https://a.example/x", "has a path"),
    ("oidc_issuer", "http://a.example", "https://"), ("oidc_issuer", "https://a.example?x", "without"),
    ("oidc_client_id", "", "is missing"),
    ("oidc_client_secret_file", None, "mode 0600"), ("oidc_allow", (), "is missing"), ("oidc_allow", ("all",), "is not a rule"),
    ("oidc_name", "x" * 41, "40 characters"), ("oidc_name", "a\nb", "one line"),
])  # fmt: skip
def test_settings_that_do_not_go_together_say_what_to_do(good, setting, value, says):
    """The control is the same without the change."""
    with pytest.raises(SettingsInvalid, match=says):
        identity_provider(Settings(**{**good, setting: value}))


@pytest.mark.parametrize("setting", ["oidc_client_id", "oidc_client_secret_file", "oidc_allow"])
def test_a_setting_of_no_provider_is_refused(good, setting):
    """An operator who forgets the issuer would wonder why nobody can sign in."""
    with pytest.raises(SettingsInvalid, match="--oidc-issuer"):
        identity_provider(Settings(**{setting: good[setting]}))


@pytest.mark.parametrize(("mode", "fine"), [(0o600, True), (0o640, True), (0o400, True), (0o644, False), (0o602, False), (0o604, False)])
def test_a_secret_that_everybody_can_read_is_refused(good, mode, fine):
    """Such a secret may be known already: chmod alone is not enough."""
    good["oidc_client_secret_file"].chmod(mode)
    if fine:
        assert identity_provider(Settings(**good))
        return
    with pytest.raises(SettingsInvalid, match=f"mode {mode:04o}.*make a new secret.*chmod 600"):
        identity_provider(Settings(**good))


@pytest.mark.parametrize("content", [b"", b"\n", b"two\nlines", b"\xff", b"x" * 5000])
def test_a_file_without_one_line_is_no_secret(good, content):
    good["oidc_client_secret_file"].write_bytes(content)
    with pytest.raises(SettingsInvalid, match="one line of ASCII") as refusal:
        identity_provider(Settings(**good))
    assert "two" not in str(refusal.value) and "xxx" not in str(refusal.value)
    good["oidc_client_secret_file"].unlink()
    with pytest.raises(SettingsInvalid, match="can't read"):
        identity_provider(Settings(**good))


def test_no_scope_of_an_administrator_comes_from_a_provider():
    """Users of a provider may do what `keys create` gives by default."""
    assert {Scope.SUBMIT, Scope.READ} == SCOPES
