"""Which pooling suits a user's own sequences.

``advice`` puts everything together (`advise_pooling`); ``search`` finds the best pooling of each
family, by ``criteria`` of what pooled vectors are for, and ``poolings`` compares them. Where
there are labels, ``classification`` measures accuracy on texts held out, and ``learning_curve``
predicts it for more of them. ``positions`` sets theory beside what is measured for weights of
positions, from the ``moments`` of tokens at each of them.
"""
