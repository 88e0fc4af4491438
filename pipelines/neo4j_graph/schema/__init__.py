"""The schema of the database: migrations by number, and the removal of what earlier versions left."""
