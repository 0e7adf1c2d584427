"""Custody in AgentDojo's agent pipeline, and the agent that does whatever it reads."""
