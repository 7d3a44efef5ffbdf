"""Posting a report to Slack: an incoming webhook, or a bot token and a channel."""

from aiops.slack.posting import PostResult, post

__all__ = ["PostResult", "post"]
