"""The quilt method, with its model, estimator and proof."""
