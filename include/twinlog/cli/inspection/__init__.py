"""Commands that look, plan and prove; `metadata` also applies what it planned."""
