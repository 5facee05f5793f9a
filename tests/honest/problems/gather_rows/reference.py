def reference(table, index):
    return table[index]
