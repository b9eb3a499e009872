"""Rewrite templates: rules as data, found in the data flow of a block, proved before they are shipped.

Start with `Templates`, the proposer, or with `read_templates` and `prove_template` for rules of your own.
"""

from asmevo.proposers.templates.instances import TARGETS, Instance, TemplateProof, contexts_of, prove_template
from asmevo.proposers.templates.library import Template, built_in_templates, compiled, joined, read_templates
from asmevo.proposers.templates.model import json_schema
from asmevo.proposers.templates.proposer import Templates

__all__ = [
    "TARGETS",
    "Instance",
    "Template",
    "TemplateProof",
    "Templates",
    "built_in_templates",
    "compiled",
    "contexts_of",
    "joined",
    "json_schema",
    "prove_template",
    "read_templates",
]
