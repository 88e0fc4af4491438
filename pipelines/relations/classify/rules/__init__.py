"""What two memories say of each other as far as careful rules can read it: the first half of the offline labeler."""
