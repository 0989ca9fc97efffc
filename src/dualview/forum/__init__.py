"""From a file of posts to roles: what is read, what is made of it, how it is fitted and how it is scored."""

from dualview.forum.columns import ROLES, Names
from dualview.forum.data import ForumData, read_forum
from dualview.forum.example import example_posts
from dualview.forum.options import ForumOptions

__all__ = ["ROLES", "ForumData", "ForumOptions", "Names", "example_posts", "read_forum"]
