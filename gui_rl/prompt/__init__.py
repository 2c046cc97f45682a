"""What the policy reads and writes: screenshots to patches, turns to token ids, responses to calls.

In: an instruction, tools, earlier turns, a screenshot. Out: `Prompt` (token ids with image placeholders, images), and
from a sampled text a `ParsedResponse`. Token ids are made here once and never remade (R7).
"""
