"""Training of one vision-language policy that operates phones, desktops and browsers."""
