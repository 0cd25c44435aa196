"""``tachograph doctor``: what is missing or misconfigured on this machine, in this environment, at that collector.

A module a check. Each gives findings; ``checks`` is the list of them. Of all rooms this one alone looks at what the
agent would see here, through the agent's own eyes: its identity, its checks of health.
"""
