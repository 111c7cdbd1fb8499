"""The host under the engines, from psutil, /proc and control groups.

What is read, and so what a tree that stands for a host has to hold:

- ``/proc``: ``stat`` (btime, cpuN), ``self``, ``sys/net/ipv4/ip_local_port_range`` and ``ip_local_reserved_ports``;
- of every process ``stat``, ``cmdline``, ``cgroup`` and ``ns/net``; while a listener is looked for ``net/tcp``, ``net/tcp6``,
  ``net/fib_trie`` and the links of ``fd``;
- of an engine's besides ``task/TID/stat``, ``statm``, ``limits`` and ``status`` (Cpus_allowed_list);
- of its control groups and those above: v2 ``cgroup.controllers`` (at the root), ``cpu.max``, ``cpu.stat``, ``memory.current``,
  ``memory.max``, ``memory.stat``, ``memory.events``; v1 ``cpu.cfs_quota_us``, ``cpu.cfs_period_us``, ``cpu.stat``,
  ``memory.usage_in_bytes``, ``memory.limit_in_bytes``, ``memory.stat``, ``memory.oom_control``.
"""

from llmvitals.telemetry.host.reader import HostReader

__all__ = ["HostReader"]
