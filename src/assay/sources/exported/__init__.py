"""Exported programs (`.pt2`): read as data; run only when trusted."""
