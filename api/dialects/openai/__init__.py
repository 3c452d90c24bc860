"""The graders of OpenAI's fine-tuning API, for the openai client."""
