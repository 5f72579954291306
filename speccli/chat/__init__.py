"""The model of a conversation: turns, settings, commands. Values and pure functions; nothing here shows or asks."""
