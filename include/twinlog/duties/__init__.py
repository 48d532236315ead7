"""Do what a flow needs besides its copy: metadata, audits and alarms, each at its own interval."""
