"""What runs leave behind: tables, figures and folders. Knows core; both worlds write it, reports read it."""
