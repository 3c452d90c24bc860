"""The graders of OpenAI's fine-tuning API, for its own client."""
