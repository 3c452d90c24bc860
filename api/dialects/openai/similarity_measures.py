"""The program: reads `[metric, text, reference]` as JSON, and prints a number from 0 to 1.

Its argument is the number of seconds of CPU time that it may use.
"""

import json
import re
import resource
import sys
import unicodedata
from collections.abc import Callable

OUT_OF_MEMORY = 9
_MEMORY_BYTES = 1 << 30


def fuzzy_match(text: str, reference: str) -> float:
    """rapidfuzz's weighted ratio of the texts without case and punctuation, as OpenAI's guide computes it."""
    from rapidfuzz import fuzz, utils

    return float(fuzz.WRatio(text, reference, processor=utils.default_process)) / 100


def bleu(text: str, reference: str) -> float:
    """sacreBLEU of one sentence, with n-grams up to the sentence's longest."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(effective_order=True).sentence_score(text, [reference]).score / 100


def gleu(text: str, reference: str) -> float:
    """Google's BLEU of one sentence, with n-grams of 1 to 4 words."""
    from nltk.translate.gleu_score import sentence_gleu

    return float(sentence_gleu([_words(reference)], _words(text)))


def meteor(text: str, reference: str) -> float:
    """METEOR with equal words and equal stems. Synonyms would need WordNet, which no package includes."""
    from nltk.translate.meteor_score import single_meteor_score

    return float(single_meteor_score(_words(reference), _words(text), wordnet=_NoSynonyms()))


def rouge(name: str) -> Callable[[str, str], float]:
    """The F-measure of one of Google's ROUGE scores, over words of any alphabet: its own tokenizer knows only a-z."""

    def measure(text: str, reference: str) -> float:
        from rouge_score.rouge_scorer import RougeScorer

        return float(RougeScorer([name], tokenizer=_Words()).score(reference, text)[name].fmeasure)

    return measure


MEASURES: dict[str, Callable[[str, str], float]] = {
    "fuzzy_match": fuzzy_match,
    "bleu": bleu,
    "gleu": gleu,
    "meteor": meteor,
    **{f"rouge_{n}": rouge(f"rouge{n}") for n in range(1, 6)},
    "rouge_l": rouge("rougeL"),
}


class _Words:
    """Splits like Google's tokenizer for a to z and digits, and handles other alphabets too; vowels may be marks."""

    def tokenize(self, text: str) -> list[str]:
        lower = text.lower().replace("_", " ")
        marks = "".join(sign for sign in set(lower) if unicodedata.category(sign).startswith("M"))  # `\w` has none
        return re.findall(rf"\w[\w{marks}]*", lower)


class _NoSynonyms:
    """The part of NLTK's WordNet that METEOR uses."""

    def synsets(self, _word: str) -> list[object]:
        return []


def _words(text: str) -> list[str]:
    from nltk.tokenize import NLTKWordTokenizer

    return list(NLTKWordTokenizer().tokenize(text))


def main() -> int:
    """Measures the job on standard input. Returns the exit code."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    sys.modules["scipy"] = None  # type: ignore[assignment]  # NLTK imports it if it can, in 0.7 s; no measure uses it
    metric, text, reference = json.loads(sys.stdin.buffer.read())
    try:
        score = MEASURES[metric](text, reference)
    except MemoryError:
        return OUT_OF_MEMORY
    sys.stdout.write(repr(min(1.0, max(0.0, score))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
