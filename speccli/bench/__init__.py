"""Bench: plain decoding against ways to speculate, each in a process of its own, on the same prompts.

prompts ─▶ cells ─▶ process ─▶ results (kept in a file) ─▶ compare ─▶ table, bars, CSV, SVG
                    └─▶ child: measure
"""
