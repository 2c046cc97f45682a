"""What a run leaves behind for its reader: metrics as JSON lines, a manifest, progress bars, and one report page."""
