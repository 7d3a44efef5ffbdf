"""The copilot: a language model may tell the story of an incident, code decides which of its sentences stand.

The model sees a redacted, fenced excerpt of the report and changes nothing but ``narrative``.
"""

from aiops.copilot.narrate import narrate
from aiops.copilot.options import CopilotOptions

__all__ = ["CopilotOptions", "narrate"]
