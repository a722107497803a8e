"""What a release tells about confidential variables: classes, codes, orders and predicates."""
