"""Live systems to case directories. Clients here only read; what they collect can be analysed again at any time.

A source is a function ``collect(url, start, end, out, …) -> Path``, registered under the entry point ``aiops.sources``.
"""
