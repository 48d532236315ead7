"""Copy the subjects of one schema registry to another by their REST API: versions, ids, compatibility, modes."""
