"""ToolCUA (2605.12481): when to go on by GUI, and when to call a tool."""
