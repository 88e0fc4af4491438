"""What a night shift does: looks over what came in, and proposes changes, each with the memories it rests on."""
