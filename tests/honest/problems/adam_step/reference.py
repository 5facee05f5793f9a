RATE, MEAN_DECAY, SQUARE_DECAY, EPSILON = 0.5, 0.9, 0.99, 1e-6


def reference(parameter, gradient, mean, square):
    mean = MEAN_DECAY * mean + (1 - MEAN_DECAY) * gradient
    square = SQUARE_DECAY * square + (1 - SQUARE_DECAY) * gradient * gradient
    moved = RATE * mean / (square.sqrt() + EPSILON)
    return parameter - moved, mean, square, moved
