"""Suggests a role and a kind for every variable, each with its reason.

Question: what does this variable give away, as far as its name and its values tell?
Assumes: nothing is applied until a person has read the reasons. What nothing speaks for keeps
the role `None`. A reason names variables and counts, never a value. Only the distinct values and
how often each occurs are looked at, so the order of the records does not matter.
"""

from sfumato.schema.inference.suggestions import suggest

__all__ = ["suggest"]
