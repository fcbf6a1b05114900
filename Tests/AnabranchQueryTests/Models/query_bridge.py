"""Answers random queries with the model of the language: reads a line {"vector": …, "texts": […]} a time from standard
input and writes the list of its answers: primary keys, the kind of an error, or null where the model itself fails."""
import json
import sys

from query_model import Model, answer


def answers(request):
    model = Model(request["vector"])
    for text in request["texts"]:
        try:
            result = answer(model, text)
        except Exception:
            result = None
        yield [json.loads(key) for key in result] if isinstance(result, list) else result


for line in sys.stdin:
    print(json.dumps(list(answers(json.loads(line))), ensure_ascii=False, separators=(",", ":")))
