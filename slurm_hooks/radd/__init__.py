"""The resident decision service behind job_submit.lua."""
