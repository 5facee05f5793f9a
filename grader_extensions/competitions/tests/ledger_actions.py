"""Actions of organisers in a ledger, each as a transaction of its own."""

import inspect

from grader_extensions.competitions import actions


class LedgerActions:
    """Calls every function of `actions` with a connection, and with the ledger's time where it asks for one."""

    def __init__(self, ledger):
        self._ledger = ledger

    def __getattr__(self, name):
        action = getattr(actions, name)
        times = [self._ledger.now] if "now" in inspect.signature(action).parameters else []

        async def call(*arguments, **named):
            return await self._ledger.database.write(lambda connection: action(connection, *(now() for now in times), *arguments, **named))

        return call
