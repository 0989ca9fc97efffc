"""How Sphinx makes the site: ``make docs``. It needs the extra ``docs`` and no network."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_extensions"))

import dualview  # noqa: E402

project = "dualview"
author = "The dualview developers"
copyright = author
version = release = dualview.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "command_line",
    "gallery_warnings",
    "live_report",
    "llms",
    "build_time",
]
exclude_patterns = [
    "joss",
    "_build",
    "link/*.md",
    "tutorial/index.rst",
    "**/sg_execution_times.rst",
    "sg_execution_times.rst",
]
templates_path = ["_templates"]
nitpicky = False
smartquotes_action = "qe"  # not dashes: --option stays as it is

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 4

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections have the types, in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Examples run again when their source changes or when they have failed; what they made stays in
# docs/gallery, which Git does not see. A warning in one of them is an error.
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/tutorial", "../examples/gallery"],
    "gallery_dirs": ["tutorial", "gallery"],
    "filename_pattern": r"\.py$",
    "within_subsection_order": "gallery_order.Order",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1,
    "matplotlib_animations": False,
    "capture_repr": ("_repr_html_",),
    "reset_modules": ("matplotlib", "gallery_warnings.warnings_are_errors"),
    "reset_modules_order": "both",
}

html_theme = "pydata_sphinx_theme"
html_title = "dualview"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "default",
}
html_sidebars = {"index": [], "install": [], "tutorial/*": []}
