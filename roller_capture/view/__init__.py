"""`roller-capture view`: a published attempt as a person reads it, the calls in a tree by agent.

`heads` reads calls.jsonl without its contexts, `attempt` gathers what an attempt says, `family` puts children in the
place of their spawn, `gaps`, `relations`, `run_end` and `stopped` find the words, `outline` makes the tree of lines,
`rendering` dresses it for a terminal or a pipe, `json_form` and `overview` are the other two forms. Nothing here writes
a file.
"""
