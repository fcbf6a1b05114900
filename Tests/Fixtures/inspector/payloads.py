"""Texts that would run if a page took them for markup, in every place that a client writes."""

MARKUP = [
    "<script>window.ran=1</script>", "<img src=x onerror=window.ran=1>", "<svg/onload=window.ran=1>", "\"><b onfocus=window.ran=1 autofocus>",
    "javascript:window.ran=1//", "<iframe srcdoc=x>", "'-window.ran=1-'", "${window.ran=1}{{ran=1}}", "</title><s>\u202etxt", "<a href=javascript:ran=1>x</a>",
]


def lines(number, text):
    """One payload as the name of a class, the name of a property, a key, a value and the name of a partition."""
    import json
    name = f"{text}{number}"
    path = "/" + json.dumps(name, ensure_ascii=False)
    return name, path, [
        {"class": name, "kind": "top-level", "key": {"name": "_id", "type": "string", "nullable": False},
         "properties": [{"name": name, "type": "string", "nullable": False}, {"name": "all", "type": "mixed", "nullable": True},
                        {"name": "list", "type": "string", "nullable": False, "collection": "list"}]},
        [name, name, {name: name, "all": name, "list": {"list": [name, name]}}],
    ]
