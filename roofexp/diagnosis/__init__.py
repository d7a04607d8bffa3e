"""Why a point is not faster: facts, rules in YAML, one verdict. Importing this imports nothing heavy."""

from roofexp.diagnosis.diagnose import diagnose, diagnosed, evidence_text, judge
from roofexp.diagnosis.rules import read_rules

__all__ = ["diagnose", "diagnosed", "evidence_text", "judge", "read_rules"]
