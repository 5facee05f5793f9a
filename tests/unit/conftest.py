"""What unit tests share: none of them sees the keys and the default server of who runs them."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A directory that is empty, in place of the user's."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))
        for name in ("GRADER_SERVER", "GRADER_KEY"):
            patched.delenv(name, raising=False)
        yield
