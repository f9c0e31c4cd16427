"""Texts and signals: corpora, classified strings, word vectors."""

from .bptt import BPTTLoader, RandomBPTTLoader
from .corpus import EOS, Corpus, load_ptb, load_text, load_wikitext
from .documents import DOCUMENT_SETS, DocumentSet, document_files, document_tokens, load_documents
from .glove import WordVectors, load_glove
from .packed_strings import LabelledStrings, PackedStrings, StringLoader, draw_snippets
from .signals import Signals, SubjectSplit, load_signals
from .sst import Phrase, Tree, load_sst, load_sst_trees, read_trees, tree_graph
from .texts import Texts, texts_from, tokens_of
from .vocabulary import Vocabulary

__all__ = [
    "DOCUMENT_SETS",
    "EOS",
    "BPTTLoader",
    "Corpus",
    "DocumentSet",
    "LabelledStrings",
    "PackedStrings",
    "Phrase",
    "RandomBPTTLoader",
    "Signals",
    "StringLoader",
    "SubjectSplit",
    "Texts",
    "Tree",
    "Vocabulary",
    "WordVectors",
    "document_files",
    "document_tokens",
    "draw_snippets",
    "load_documents",
    "load_glove",
    "load_ptb",
    "load_signals",
    "load_sst",
    "load_sst_trees",
    "load_text",
    "load_wikitext",
    "read_trees",
    "texts_from",
    "tokens_of",
    "tree_graph",
]
