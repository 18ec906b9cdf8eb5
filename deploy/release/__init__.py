"""What a release is made with: the table of settings, the bill of materials, the check of what is
built."""
