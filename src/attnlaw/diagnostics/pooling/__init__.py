"""Which pooling suits a user's own sequences.

``advice`` combines everything (`advise_pooling`); ``search`` finds the best pooling of each
family, by the ``criteria`` of a task, and ``poolings`` compares them. Where there are labels,
``classification`` measures accuracy on held-out texts, and ``learning_curve`` predicts it for more
of them. ``positions`` compares theory and measurement for weights of positions, using the
``moments`` of tokens at each of them.
"""
