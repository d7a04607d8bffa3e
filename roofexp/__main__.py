from roofexp.cli import main

main()
