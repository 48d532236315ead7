"""Try on scratch topics of both clusters what a flow will need there (`twinlog check --try`)."""
