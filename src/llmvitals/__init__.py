"""llmvitals: why is my self-hosted LLM server slow, and what do I change?"""

__version__ = "0.1.0"
